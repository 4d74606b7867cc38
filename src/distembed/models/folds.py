"""Which rows are drawn and which are held out: samples, folds, a share; rows of one group stay together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn import model_selection

from ..compute.arrays import Array

Folds = Sequence[tuple[Array, Array]]  # training and held-out positions

FEW_TO_HOLD_OUT = 200  # a tenth of fewer rows says nothing
N_INNER = 10


def sample_rows(
    n_rows: int, most: int, groups: Array | None, rng: np.random.RandomState | np.random.Generator
) -> Array:
    """Draw at most this many rows, evenly and without replacement; all of them, and no random number, if they fit.

    Parameters
    ----------
    n_rows, most : int
        How many there are, and how many are wanted.
    groups : ndarray of shape (n_rows,), optional
        Whole groups are drawn or, where fewer than three would fit, some rows of each.
    rng : RandomState or Generator
        Draws them.

    Returns
    -------
    ndarray of int
        Positions, in increasing order.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> sample_rows(3, 5, None, rng), sample_rows(6, 3, None, rng), sample_rows(8, 6, np.repeat(range(4), 2), rng)
    (array([0, 1, 2]), array([1, 2, 5]), array([0, 1, 4, 5, 6, 7]))
    """
    if n_rows <= most:
        return np.arange(n_rows)
    if groups is None:
        return np.sort(rng.choice(n_rows, most, replace=False))
    names, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_whole = int(np.searchsorted(np.cumsum(sizes[order]), most, side="right"))
    if n_whole >= 3:
        return np.flatnonzero(np.isin(number, order[:n_whole]))
    drawn = rng.permutation(n_rows)
    firsts = drawn[np.unique(number[drawn], return_index=True)[1]][order][: most // 2]  # a row of each group
    return np.sort(np.concatenate([firsts, drawn[~np.isin(drawn, firsts)]])[:most])


def n_folds(tune: str | int, n_rows: int, groups: Array | None) -> str | int:
    """How a learner's ``tune`` splits n rows: ``"holdout"``, or a number of folds, three for ``"auto"``.

    Examples
    --------
    >>> n_folds("holdout", 500, None), n_folds("holdout", 50, None), n_folds(3, 50, np.repeat([0, 1], 25))
    ('holdout', 5, 2)
    """
    if tune == "holdout" and n_rows >= FEW_TO_HOLD_OUT:
        return "holdout"
    n = n_rows if groups is None else len(np.unique(groups))
    return min({"holdout": 5, "auto": 3}.get(str(tune)) or int(tune), n)


def folds_of(
    how: str | int,
    y: Array,
    groups: Array | None,
    classes: bool,
    rng: np.random.RandomState,
    share: float = 0.1,
) -> list[tuple[Array, Array]]:
    """Training and held-out positions: a share held out, or n folds; groups stay together."""
    seed = int(rng.randint(2**31))
    n = len(y)
    strata = bool(classes and np.min(np.unique(y, return_counts=True)[1]) >= (2 if how == "holdout" else how))
    if how == "holdout":
        share = max(share, 1 / n)
        if groups is not None:
            splitter: Any = model_selection.GroupShuffleSplit(1, test_size=share, random_state=seed)
        else:
            strata = strata and min(n * share, n - n * share) >= len(np.unique(y))
            kind = model_selection.StratifiedShuffleSplit if strata else model_selection.ShuffleSplit
            splitter = kind(1, test_size=share, random_state=seed)
    elif groups is not None:
        splitter = model_selection.StratifiedGroupKFold(how) if strata else model_selection.GroupKFold(how)
    else:
        kind = model_selection.StratifiedKFold if strata else model_selection.KFold
        splitter = kind(how, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(n), y, groups))


def inner_folds(codes: Array, groups: Array | None, seed: int, most: int = N_INNER) -> list[tuple[Array, Array]]:
    """At most n folds of rows, each with all classes that have at least two rows."""
    counts = np.unique(codes, return_counts=True)[1]
    groups = None if groups is None or len(np.unique(groups)) < 2 else groups
    units = len(codes) if groups is None else len(np.unique(groups))
    how = max(2, min(most, units, int(counts.min())))
    return folds_of(how, codes, groups, True, np.random.RandomState(seed))


def restrict_folds(folds: Folds, part: Array, n_rows: int) -> list[tuple[Array, Array]]:
    """Folds of some of the rows, numbered among these.

    Examples
    --------
    >>> folds = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    >>> restrict_folds(folds, np.array([0, 1, 3]), 4)
    [(array([2]), array([0, 1])), (array([0, 1]), array([2]))]
    """
    number = np.full(n_rows, -1)
    number[part] = np.arange(len(part))
    few = [(number[seen], number[held]) for seen, held in folds]
    few = [(seen[seen >= 0], held[held >= 0]) for seen, held in few]
    return [(seen, held) for seen, held in few if len(seen) and len(held)]


def average_over_folds(folds: Folds, n_rows: int, predict: Callable[[int, Array, Array], Array]) -> Array:
    """Predictions (n_rows, n_outputs) of ``predict(fold, seen, held)`` at held rows, averaged over repeated folds.

    Examples
    --------
    >>> folds = [(np.array([2]), np.array([0, 1])), (np.array([0, 1]), np.array([2]))]
    >>> average_over_folds(folds, 3, lambda fold, seen, held: np.full((len(held), 1), float(fold))).ravel()
    array([0., 0., 1.])
    """
    found = [predict(i, seen, held) for i, (seen, held) in enumerate(folds)]
    total = np.zeros((n_rows, found[0].shape[1]))
    times = np.zeros((n_rows, 1))
    for (_, held), rows in zip(folds, found, strict=True):
        total[held] += rows
        times[held] += 1
    return total / times
