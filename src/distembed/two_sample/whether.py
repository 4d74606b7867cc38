"""Do two bags, or two groups of bags, differ? Permutation tests with any divergence.

The statistic of two groups comes from the one matrix of divergences of all bags: for all permutations it is a few
products of matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bags import Bags, as_bags, concat
from ..compute.arrays import Array
from ..compute.checks import check_flag, check_number
from ..density.subsets import effective_sizes
from ..divergences.pairs import check_width
from ..kernels.comparisons import Comparison
from .answers import TestResult, p_value
from .factors import analyse, gram_of, read_design
from .permutations import (
    Mask,
    Permutations,
    Pool,
    Seed,
    check_permutations,
    in_order_of_contents,
    make_generator,
    pool_bags,
    pool_points,
)
from .point_statistics import Statistics, name_of, point_statistics, refuse_categories, sees_sizes, to_cube

_ROUNDING = 1e-12  # of the largest divergence
SIZES_DIFFER = 0.05  # p-value of the sizes of bags from which on groups differ in them
NOISES_DIFFER = 1.1  # ratio of mean 1/n, to which noise is proportional, from which on it matters


def bags_test(
    x: Any,
    y: Any,
    divergence: Any = "mmd",
    *,
    n_permutations: int = 999,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> TestResult:
    r"""Whether the points of two bags come from one distribution: a permutation test with any divergence.

    The statistic is the divergence between the two bags. Under the hypothesis points could as well have come in the
    other bag, so it is compared with the divergence of bags of the same sizes, drawn from all points together.

    Parameters
    ----------
    x, y : array-like of shape (n, n_dims) or (n,), or Bags of one bag
        The bags. Points of weight zero are as if absent; others must weigh the same.
    divergence : str, embedding or callable, default="mmd"
        - ``"mmd"``: maximum mean discrepancy, σ the median distance of all points; in any number of dimensions;
        - ``"js"``, ``"hellinger"``, ``"tv"``, ``"chi2"``: between kernel density estimates, in one to three dimensions;
        - ``"knn:kl"``, ``"knn:renyi:<a>"``, ``"knn:hellinger"`` and others from nearest neighbours;
        - ``"gaussian:skl"`` and others between Gaussian fits; ``"js_entropy"``;
        - an embedding: squared distances of its features; or a function of bags that returns a matrix.
    n_permutations : int, default=999
        Random permutations. Where there are no more distinct ones than that, all of them are taken.
    random_state : int, RandomState or None, default=None
        Of the permutations.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use, which is one inside a parallel worker. Embeddings have an ``n_jobs`` of
        their own, and functions are called in one thread.

    Returns
    -------
    TestResult
        ``pvalue``, ``statistic``, ``null``; ``print`` shows it in a line.

    Notes
    -----
    *Exact* at any size: the chance of a p-value of at most α is at most α if both bags come from one distribution.
    For that, bandwidth, σ, scale or embedding are fitted once, to all points together: to a random split of them into
    bags of the observed sizes. For densities, points are scaled to the unit cube by their common range, which changes
    no such distance. The p-value depends neither on the order of points nor on which bag is x; divergences of two
    directions are averaged.

    *Ties.* A permutation counts if its statistic is at least the observed one, up to rounding: 1e-9 of the largest
    statistic, and 1e-12 of the terms it is made of. So bags of copies of one point have p = 1.

    *Which divergence.* All tests have the right level, they differ in what they see. ``"mmd"`` sees shifts and scales
    well, and detail finer than σ late; ``"js"`` and ``"knn:kl"`` see other shapes as well. For ``"mmd"`` and neighbours
    coordinates should have comparable spreads: divide by them, or pass ``make_pipeline(UnitCube(), MeanEmbedding())``.

    *Cost*, for N points and B permutations:

    ====================== ==========================================================================================
    ``"mmd"``              N² kernels and 2 B N² operations up to 3,000 points; beyond, 1,000 features (in one to three
                           dimensions often fewer, those of the kernel's Fourier series) and 2,000 B N operations
    linear embeddings      N features and 2 B N n_features operations: MeanEmbedding, MomentEmbedding("mean"),
                           L2Embedding(method="points"), also behind UnitCube
    ``"js"`` ...           a search for the bandwidth, and B densities of the smaller bag on a grid of K nodes, 64 to
                           a few thousand, with as many values of κ
    ``"knn:kl"`` ...       one search for some 10 k neighbours of each point, and 10 k B N comparisons; as anything else
                           with copies among the points, or if the smaller bag has less than some 5 % of more than
                           500 points
    other embeddings       2 B bags are embedded
    anything else          B times the divergence of two bags
    ====================== ==========================================================================================

    Memory: N² numbers for ``"mmd"`` up to 3,000 points, some 20 k N for ``"knn:kl"``; B N bits and some megabytes a
    thread besides.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola (2012). A kernel two-sample test. JMLR.

    Phipson and Smyth (2010). Permutation p-values should never be zero. Statistical Applications in Genetics and
    Molecular Biology.

    Examples
    --------
    >>> from distembed.two_sample import bags_test
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(0, 1, size=(100, 2)), rng.normal(0.8, 1, size=(80, 2))
    >>> print(bags_test(x, y, random_state=0))
    p = 0.001 (999 permutations): the bags differ

    Equal mean and variance, another shape:

    >>> y = rng.choice([-1, 1], 150) * 0.95 + rng.normal(0, 0.3, size=150)
    >>> print(bags_test(rng.normal(size=150), y, "js", random_state=0))
    p = 0.001 (999 permutations): the bags differ
    """
    n_permutations = check_permutations("bags_test", n_permutations)
    rng = make_generator(random_state)
    pool = pool_points("bags_test", x, y, rng)
    drawn = pool.permutations(n_permutations, rng)
    return _result(point_statistics("bags_test", divergence, pool, drawn, rng, n_jobs), drawn, divergence, pool)


def groups_test(
    X: Any,
    Y: Any,
    divergence: Any = "mmd",
    *,
    paired: bool = False,
    strata: Any = None,
    covariates: Any = None,
    units: Any = None,
    match_sizes: bool = False,
    exponent: float = 2.0,
    n_permutations: int = 999,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> TestResult:
    r"""Whether two groups of bags, such as patients and controls, differ: a permutation test of whole bags.

    The hypothesis is that the bags of both groups come from one distribution over distributions. The statistic

    .. math:: \overline{d^2(x, y)} - \tfrac12 \overline{d^2(x, x')} - \tfrac12 \overline{d^2(y, y')},

    means over bags x of X and y of Y, distinct ones inside a group, is unbiased for the squared distance of the mean
    features of the groups where d² is a squared distance of features.

    Parameters
    ----------
    X, Y : Bags or anything that :func:`distembed.as_bags` reads
        The groups, of at least two bags each. Weights of points count.
    divergence : str, embedding or callable, default="mmd"
        As in :func:`bags_test`. Points are scaled to the unit cube for ``"js"``, ``"hellinger"``, ``"tv"`` and
        ``"chi2"``.
    paired : bool, default=False
        Whether bag i of X belongs to bag i of Y, as before and after. Then members of pairs change places, and the
        mean over pairs i ≠ j of (d²(x_i, y_j) + d²(y_i, x_j) - d²(x_i, x_j) - d²(y_i, y_j)) / 2 is the statistic:
        differences between pairs cancel.
    strata : array-like of shape (n_bags of X + n_bags of Y,), or a pair of them, optional
        Site, batch or sex of each bag: bags change places inside of their stratum alone. The statistic is the pseudo-F
        of :func:`factors_test`, from which differences between strata are removed. For repeated measures, such as
        treated and untreated samples of each patient, the patients are the strata.
    covariates : table of one row per bag, X first, or a pair of tables, optional
        What is adjusted for, such as age: residuals change places, with the same statistic.
    units : array-like as ``strata``, optional
        Bags of one unit, such as several samples of one patient, count as one: their features are averaged.
    match_sizes : bool, default=False
        Draw points at random until both groups have the same distribution of sizes: a bag keeps at most as many points
        as the bag of its rank by size in the other group, of pairs as its partner. Small bags stay whole.
    exponent : float, default=2.0
        In (0, 2]: d^exponent takes the place of d². With 2 the test looks at the mean features of the groups. Below 2,
        for example 1, it also sees groups that differ in the spread of their bags around the same mean; estimates below
        zero then count as zero.
    n_permutations, random_state, n_jobs
        As in :func:`bags_test`.

    Returns
    -------
    TestResult
        ``pvalue``, ``statistic``, ``null``; ``print`` shows it in a line.

    Notes
    -----
    *Bags, not points, change places.* Points of one patient are alike; to test all points of the patients against all
    of the controls would take every patient's own ways for a difference of the groups.

    *Exact* at any size, as :func:`bags_test`: everything is fitted to all bags together. Four bags against four have
    35 splits, and no p-value below 1/35.

    *Pairs* that lie far apart and differ by a common shift need a divergence for which a shift is the same everywhere:
    sliced Wasserstein distances, means and other moments. For ``"js"`` and its like, densities that do not overlap
    change in unrelated ways.

    *Designs.* With ``strata``, ``covariates`` or ``units`` see :func:`factors_test`, of which this is the test of one
    factor: exact with strata and units, right in large samples with covariates.

    *Sizes.* Small bags look far from all others, see :mod:`distembed.sizes`. If the bags of one group are smaller, that
    is a difference of the groups, and the test will see it. A permutation test of the mean of 1/n looks for that, and a
    UserWarning has the remedies. Means over points do not shift with the size of a bag: with ``"mmd"``,
    :class:`~distembed.MeanEmbedding`, means and behind :class:`~distembed.BlockAverage` there is no warning, unless
    ``exponent`` is below 2.

    *Cost.* One matrix of the divergences of all N bags, N² / 2 of them for named divergences, N embedded bags for
    embeddings; and 2 N² operations per permutation. Memory: N² numbers.

    References
    ----------
    Székely and Rizzo (2013). Energy statistics: a class of statistics based on distances. Journal of Statistical
    Planning and Inference.

    Sejdinovic, Sriperumbudur, Gretton, Fukumizu (2013). Equivalence of distance-based and RKHS-based statistics in
    hypothesis testing. Annals of Statistics.

    Examples
    --------
    >>> from distembed.two_sample import groups_test
    >>> rng = np.random.default_rng(0)
    >>> controls = [rng.normal(rng.normal(0, 0.3), 1, size=50) for _ in range(12)]
    >>> patients = [rng.normal(rng.normal(1, 0.3), 1, size=50) for _ in range(10)]
    >>> print(groups_test(patients, controls, random_state=0))
    p = 0.001 (999 permutations): the groups differ

    Twelve people before and after, each with a mean of their own:

    >>> from distembed import SlicedWassersteinEmbedding
    >>> means = rng.normal(0, 3, 12)
    >>> before, after = ([rng.normal(mean + gain, 1, size=100) for mean in means] for gain in (0, 0.5))
    >>> result = groups_test(before, after, SlicedWassersteinEmbedding(), random_state=0)
    >>> bool(result.pvalue > 0.3)
    True
    >>> print(groups_test(before, after, SlicedWassersteinEmbedding(), paired=True, random_state=0))
    p = 0.00... (999 permutations): the groups differ
    """
    owner = "groups_test"
    n_permutations = check_permutations(owner, n_permutations)
    rng = make_generator(random_state)
    exponent = check_number(owner, "exponent", exponent, low=0, high=2, inclusive="right")
    if check_flag(owner, "match_sizes", match_sizes):
        X, Y = with_equal_sizes(owner, as_bags(X), as_bags(Y), check_flag(owner, "paired", paired), rng)
    if strata is not None or covariates is not None or units is not None:
        if paired:
            raise ValueError(
                "groups_test(paired=True): pairs are strata of two bags, so strata, covariates and units cannot be "
                "added; leave out paired, and pass the pairs as strata"
            )
        return _in_a_design(X, Y, divergence, (strata, covariates, units), exponent, n_permutations, rng, n_jobs)
    pool = pool_bags(owner, X, Y, paired, rng)
    drawn = pool.permutations(n_permutations, rng)
    warn_if_sizes_differ(owner, divergence, pool, drawn, exponent)
    return _result(bag_statistics(owner, divergence, pool, drawn, exponent, n_jobs), drawn, divergence, pool)


def _in_a_design(
    X: Any,
    Y: Any,
    divergence: Any,
    given: tuple[Any, Any, Any],
    exponent: float,
    n_permutations: int,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> TestResult:
    """The test of one factor, the group, in a design with strata, covariates or units."""
    owner = "groups_test"
    groups = [as_bags(X), as_bags(Y)]
    sizes = (groups[0].n_bags, groups[1].n_bags)
    check_width(owner, "Y", groups[1].n_dims, "X", groups[0].n_dims)
    strata, covariates, units = (
        _one_below_the_other(owner, name, each, sizes)
        for name, each in zip(("strata", "covariates", "units"), given, strict=True)
    )
    bags = concat([each.replace(ids=None) for each in groups])
    group = {"group": np.repeat(["x", "y"], sizes)}
    table = read_design(owner, bags, group, covariates, strata, units)
    pool, order = in_order_of_contents(bags.drop_weightless().astype(np.float64), rng)
    gram = gram_of(owner, divergence, pool, exponent, n_jobs)
    design = table.rows(order)
    if design.units is not None:
        design, gram = design.average(owner, gram)
    found = analyse(owner, design, gram, n_permutations, rng, name_of(divergence), n_jobs)
    return TestResult(
        statistic=float(found.statistics[0]),
        pvalue=float(found.pvalues[0]),
        n_permutations=found.n_permutations,
        exhaustive=found.exhaustive,
        null=found.nulls[0],
        divergence=found.divergence,
        sizes=sizes,
        permuted="bags",
    )


def _one_below_the_other(owner: str, name: str, given: Any, sizes: tuple[int, int]) -> Any:
    """What is given for the bags of X and of Y, as one column or table."""
    if not (isinstance(given, tuple) and len(given) == 2):
        return given
    first, second = given
    if isinstance(first, Mapping) or hasattr(first, "columns"):
        names = list(first) if isinstance(first, Mapping) else list(first.columns)
        lacks = [each for each in names if each not in (second if isinstance(second, Mapping) else second.columns)]
        if lacks:
            raise ValueError(f"{owner}({name}=...): the table of Y lacks the column {lacks[0]!r}; give it the same")
        return {each: np.concatenate([np.asarray(first[each]), np.asarray(second[each])]) for each in names}
    parts = [np.asarray(each) for each in given]
    if tuple(len(each) for each in parts) != sizes:
        raise ValueError(
            f"{owner}({name}=...): must have {sizes[0]} values for X and {sizes[1]} for Y, got "
            f"{len(parts[0])} and {len(parts[1])}; give one per bag"
        )
    return np.concatenate(parts)


def with_equal_sizes(owner: str, X: Bags, Y: Bags, paired: bool, rng: np.random.Generator) -> tuple[Bags, Bags]:
    """Bags of two groups with points left out at random, until both groups have one distribution of sizes.

    Examples
    --------
    >>> X, Y = as_bags([np.zeros(5), np.zeros(9)]), as_bags([np.ones(7), np.ones(6), np.ones(50)])
    >>> [each.sizes.tolist() for each in with_equal_sizes("example", X, Y, False, np.random.default_rng(0))]
    [[5, 9], [7, 5, 9]]
    """
    groups = [X.drop_weightless(), Y.drop_weightless()]
    sizes = [each.sizes for each in groups]
    if paired:
        _check_numbers(owner, sizes)
        kept = [np.minimum(*sizes)] * 2
    else:
        kept = [_at_most(own, other) for own, other in zip(sizes, sizes[::-1], strict=True)]
    found = []
    for bags, n in zip(groups, kept, strict=True):
        owners = np.repeat(np.arange(bags.n_bags), bags.sizes)
        order = np.lexsort((rng.random(bags.n_points), owners))
        rank = np.arange(bags.n_points) - bags.offsets[owners]
        rows = np.sort(order[rank < n[owners]])
        weights = None if bags.weights is None else bags.weights[rows]
        offsets = np.append(0, np.cumsum(n))
        found.append(bags.replace(points=bags.points[rows], offsets=offsets, weights=weights))
    return found[0], found[1]


def _check_numbers(owner: str, sizes: list[Array]) -> None:
    if len(sizes[0]) != len(sizes[1]):
        raise ValueError(
            f"{owner}(paired=True): X and Y must have one bag for each other, got {len(sizes[0])} and {len(sizes[1])} "
            "bags; leave out bags without a partner"
        )


def _at_most(own: Array, other: Array) -> Array:
    """Sizes, none larger than that at the same quantile of the other group."""
    rank = np.empty(len(own), int)
    rank[np.argsort(own, kind="stable")] = np.arange(len(own))
    place = np.ceil((rank + 1) / len(own) * len(other)).astype(int) - 1
    return np.asarray(np.minimum(own, np.sort(other)[place]))


def _result(found: Statistics, drawn: Permutations, divergence: Any, pool: Pool) -> TestResult:
    return TestResult(
        statistic=float(found.values[0]),
        pvalue=p_value(*found),
        null=found.values[1:],
        divergence=name_of(divergence),
        **pool.how(drawn),
    )


# --------------------------------------------------------------------------------------------------------------
# Statistics of two groups
# --------------------------------------------------------------------------------------------------------------


def warn_if_sizes_differ(
    owner: str, divergence: Any, pool: Pool, drawn: Permutations, exponent: float, stacklevel: int = 3
) -> None:
    """Warn where the bags of one group are smaller than those of the other, and the statistic sees that.

    Parameters
    ----------
    owner : str
        Named in the warning.
    divergence : str, embedding or callable
        Of the test.
    pool : Pool
        All bags.
    drawn : Permutations
        Of the test: they find the p-value of the sizes as well.
    exponent : float
        Of the test.
    stacklevel : int
        2 points to the caller of this function.

    Examples
    --------
    >>> pool = pool_bags("example", [[0.0], [1.0]], [[4.0], [5.0]], False, make_generator(0))
    >>> warn_if_sizes_differ("example", "js", pool, pool.permutations(9, make_generator(0)), 2.0)  # all of one size
    """
    noises = 1 / effective_sizes(pool.bags)
    if np.ptp(noises) == 0 or not (sees_sizes(divergence) or exponent < 2):
        return
    if pool.pairs is None:
        first = noises[pool.first]
        second = noises[~pool.first]
    else:
        first, second = noises[pool.pairs].T
    ratio = first.mean() / second.mean()
    if max(ratio, 1 / ratio) < NOISES_DIFFER:
        return
    gaps = np.abs(gaps_of_means(noises[:, None], pool, drawn, None)[:, 0])
    # Few bags have no p-value below 0.05, however much they differ: then the smallest one there is will do.
    if p_value(gaps, _ROUNDING) <= max(SIZES_DIFFER, 1 / len(gaps)):
        warnings.warn(
            f"{owner}: the bags of one group are smaller than those of the other, and {name_of(divergence)!r} sees "
            "that too, so a small p-value may mean no more than this; draw as many points from each bag first, as "
            "match_sizes=True of groups_test does, put BlockAverage around the embedding, or use divergence='mmd' with "
            "exponent=2",
            UserWarning,
            stacklevel=stacklevel,
        )


def gaps_of_means(values: Array, pool: Pool, drawn: Permutations, n_jobs: int | None) -> Array:
    """Standardised differences of the means of x and y, ndarray of shape (n_permutations + 1, n_values).

    Parameters
    ----------
    values : ndarray of shape (n_bags, n_values)
        Of the bags of the pool.
    pool : Pool
        All bags.
    drawn : Permutations
        Of bags, or of pairs where the pool has them.
    n_jobs : int or None
        Threads.

    Examples
    --------
    >>> pool = pool_bags("example", [[0.0], [1.0]], [[4.0], [5.0]], False, make_generator(0))
    >>> values = pool.bags.points  # one point a bag
    >>> gaps_of_means(values, pool, pool.permutations(9, make_generator(0)), None)[0].round(2)
    array([-1.68])
    """
    if pool.pairs is not None:
        gaps = values[pool.pairs[:, 0]] - values[pool.pairs[:, 1]]
        unit = np.sqrt(np.sum(gaps**2, axis=0))

        def contrasts(rows: Mask) -> Array:
            return np.where(rows, -1.0, 1.0)
    else:
        n = pool.n_first
        m = pool.n_second
        gaps = values - values.mean(axis=0)
        unit = np.sqrt(np.sum(gaps**2, axis=0) / (n + m - 1) * (1 / n + 1 / m))

        def contrasts(rows: Mask) -> Array:
            return pool.sign * np.where(rows, 1 / n, -1 / m)

    moves = unit > 1e-12 * np.max(np.abs(values))
    gaps = np.where(moves, gaps / np.where(moves, unit, 1.0), 0.0)

    return drawn.map(lambda rows: contrasts(rows) @ gaps, n_jobs)


def bag_statistics(
    owner: str, divergence: Any, pool: Pool, permutations: Permutations, exponent: float, n_jobs: int | None
) -> Statistics:
    """The statistic of :func:`~distembed.two_sample.groups_test` for all permutations.

    Parameters
    ----------
    owner : str
        Named in errors.
    divergence : str, embedding or callable
        As in :class:`~distembed.kernels.comparisons.Comparison`.
    pool : Pool
        All bags.
    permutations : Permutations
        Of bags, or of pairs where the pool has them.
    exponent : float
        The statistic is of d^exponent.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> pool = pool_bags("example", [[0.0], [1.0]], [[4.0], [5.0]], False, make_generator(0))
    >>> found = bag_statistics("example", "mmd", pool, pool.permutations(99, make_generator(0)), 2.0, None)
    >>> len(found.values), int(np.argmax(found.values))
    (3, 0)
    """
    refuse_categories(owner, divergence, pool.bags)
    bags = to_cube(divergence, pool.bags)
    compare = Comparison(divergence, bags, owner, n_jobs=n_jobs)
    d2 = compare.both_ways(compare.look_at(bags))
    if exponent != 2:
        d2 = np.maximum(d2, 0.0) ** (exponent / 2)
    if pool.pairs is not None:
        return paired_statistics(d2[np.ix_(pool.pairs.T.ravel(), pool.pairs.T.ravel())], permutations, n_jobs)
    return energy_statistics(d2, permutations, n_jobs)


def energy_statistics(d2: Array, splits: Permutations, n_jobs: int | None = None) -> Statistics:
    """Mean between groups minus half of the sum of the means inside, over distinct pairs.

    Parameters
    ----------
    d2 : ndarray of shape (n_bags, n_bags)
        Symmetric; the diagonal does not count.
    splits : Permutations
        Of bags.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.permutations import splits
    >>> d2 = np.subtract.outer([0.0, 1.0, 4.0, 5.0], [0.0, 1.0, 4.0, 5.0]) ** 2
    >>> energy_statistics(d2, splits(np.array([True, True, False, False]), 99, np.random.default_rng(0))).values
    array([15.5, -7. , -8.5])
    """
    off = ~np.eye(len(d2), dtype=bool)
    d = np.where(off, d2 - np.mean(d2[off]), 0.0)  # a constant changes nothing, and this one saves digits
    totals = d.sum(axis=1)
    everything = totals.sum()
    n = int(splits.rows(slice(0, 1)).sum())
    m = len(d) - n

    def gaps(rows: Mask) -> Array:
        s = rows.astype(np.float64)
        first = np.einsum("ij,ij->i", s @ d, s)
        between = s @ totals - first
        second = everything - first - 2 * between
        return np.asarray(between / (n * m) - first / (2 * n * (n - 1)) - second / (2 * m * (m - 1)))

    return Statistics(splits.map(gaps, n_jobs), _ROUNDING * float(np.max(np.abs(d2), where=off, initial=0.0)))


def paired_statistics(d2: Array, swaps: Permutations, n_jobs: int | None = None) -> Statistics:
    r"""Mean of C_ij over i ≠ j, C_ij = (d²(x_i, y_j) + d²(y_i, x_j) - d²(x_i, x_j) - d²(y_i, y_j)) / 2.

    To swap pair i changes the sign of row and column i of C: all permutations are quadratic forms εᵀCε.

    Parameters
    ----------
    d2 : ndarray of shape (2 n_pairs, 2 n_pairs)
        Symmetric, of x_1, ..., x_n, y_1, ..., y_n.
    swaps : Permutations
        Of pairs.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from distembed.two_sample.permutations import swaps
    >>> points = np.array([0.0, 10.0, 1.0, 11.0])  # pairs (0, 1) and (10, 11)
    >>> paired_statistics(np.subtract.outer(points, points) ** 2, swaps(2, 9, np.random.default_rng(0))).values
    array([ 1., -1.])
    """
    n = len(d2) // 2
    products = (d2[:n, n:] + d2[n:, :n] - d2[:n, :n] - d2[n:, n:]) / 2
    np.fill_diagonal(products, 0.0)

    def quadratic_forms(rows: Mask) -> Array:
        signs = np.where(rows, -1.0, 1.0)
        return np.asarray(np.einsum("ij,ij->i", signs @ products, signs) / (n * (n - 1)))

    return Statistics(swaps.map(quadratic_forms, n_jobs), _ROUNDING * float(np.max(np.abs(d2))))
