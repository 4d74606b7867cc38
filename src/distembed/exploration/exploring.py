"""Everything that a table of bags shows without labels, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bags import Bags, as_bags, concat
from ..bags.ids import id_text
from ..compute.arrays import Array
from ..compute.checks import check_choice, check_number, pandas_for
from ..compute.progress import Progress, stages_of
from ..learners.compact_rows import thin
from ..learners.likeness import Likeness
from ..two_sample.factors import analyse, encode_each, read_design
from .duplicates import Duplicate, near_duplicates
from .groups import BagClusters, GroupColumn, drawn_rows
from .odd import OddBags
from .rows import RANKS, RankRows, make_rows

MOST_BAGS = 5000  # that decide axes, groups and what is usual
_MOST_POINTS = 5_000_000  # of these
_AT_ONCE = 5000  # bags that are looked at together
_MOST_TESTED = 1000  # bags of tests of factors
_FAR = 4.0  # half widths of the middle four fifths of the map, from which on a bag stands at the edge
_MOST_NAMED = 12


@dataclass(frozen=True, eq=False, repr=False)
class BagMap:
    """All bags in the plane, near each other where they are alike: an array to NumPy.

    Attributes
    ----------
    xy : ndarray of shape (n_bags, 2)
        Coordinates; those of bags far from all others are moved to the edge.
    shown : float
        Share of the squared distances between bags that the two axes show; of UMAP the squared correlation of
        distances.
    shares : tuple of float
        The part of each axis; nan of UMAP.
    far : ndarray of shape (n_bags,) of bool
        Bags that are at the edge, or have a value that no other bag has.
    columns : ndarray of shape (n_bags,) of object
        The column that makes each far bag far; None for others.
    what : str
        What the axes are.
    """

    xy: Array
    shown: float
    shares: tuple[float, float]
    far: NDArray[np.bool_]
    columns: Array
    what: str

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_bags, 2)."""
        return self.xy.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.xy, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.xy)

    def __getitem__(self, i: Any) -> Any:
        return self.xy[i]

    def __repr__(self) -> str:
        return f"BagMap({len(self)} bags, {self.shown:.0%} of squared distances shown, {int(self.far.sum())} far)"


@dataclass(frozen=True, eq=False, repr=False)
class BagGroups:
    """Groups of bags that are alike: their labels to NumPy.

    Attributes
    ----------
    labels : ndarray of shape (n_bags,) of int
        Group of each bag, the largest 0; -1 for bags between groups.
    n_groups : int
        One if there are none.
    medoids : ndarray of shape (n_groups,) of int
        Position of the bag in the middle of each group.
    columns : list of list of GroupColumn
        For each group, the columns in which it differs from all others.
    strengths : dict of int to float
        Prediction strength of each number of groups that was tried.
    """

    labels: NDArray[np.intp]
    n_groups: int
    medoids: NDArray[np.intp]
    columns: list[list[GroupColumn]]
    strengths: dict[int, float]

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_bags,)."""
        return self.labels.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.labels, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: Any) -> Any:
        return self.labels[i]

    def __repr__(self) -> str:
        counts = np.bincount(self.labels[self.labels >= 0], minlength=self.n_groups)
        return f"BagGroups({self.n_groups}: {', '.join(f'{n:,}' for n in counts)} bags)"


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """What :func:`explore` found; prints as sentences.

    Attributes
    ----------
    ids : ndarray of shape (n_bags,)
        Of the bags.
    sizes : ndarray of shape (n_bags,)
        Points of each bag.
    map : BagMap
        All bags in the plane.
    groups : BagGroups
        Groups of bags that are alike.
    odd : Likeness
        Whether each bag is like the others at its size: p-values, and scores of columns.
    duplicates : list of Duplicate
        Pairs of bags that share their points.
    factors : dict of str to tuple
        For each factor, and for ``"size"``: the share of the differences between bags that it explains, and its
        p-value.
    column_names : tuple of str
        Columns of the points.
    sample : Bags
        The bags that decided axes and groups; all where they are few.
    summary : dict
        The main numbers, and ``"text"``, a list of sentences.
    """

    ids: Array
    sizes: NDArray[np.int64]
    map: BagMap
    groups: BagGroups
    odd: Likeness
    duplicates: list[Duplicate]
    factors: dict[str, tuple[float, float]]
    column_names: tuple[str, ...]
    sample: Bags
    summary: dict[str, Any] = field(default_factory=dict)

    def to_frame(self) -> Any:
        """A pandas data frame of one row per bag: size, place on the map, group, oddness, p-value and odd column."""
        columns = {
            "size": self.sizes,
            "x": self.map.xy[:, 0],
            "y": self.map.xy[:, 1],
            "group": self.groups.labels,
            "oddness": self.odd.oddness,
            "pvalue": self.odd.pvalues,
            "odd_column": self.odd.odd_columns,
        }
        return pandas_for("Exploration.to_frame").DataFrame(columns, index=self.ids)

    def plot(self, ax: Any = None) -> Any:
        """Draw the map, with groups in colours and far bags named; see :func:`distembed.plot.exploration`."""
        from ..plot import exploration

        return exploration(self, ax=ax)

    def __repr__(self) -> str:
        return "\n".join(self.summary["text"])


def explore(
    X: Any,
    *,
    factors: Any = None,
    embedding: Any = RANKS,
    n_groups: Any = "auto",
    groups: str = "kmeans",
    axes: str = "principal",
    random_state: Any = 0,
    progress: Progress = False,
) -> Exploration:
    """What is in a table of bags, without labels: a map, groups, odd bags, duplicates, what factors explain.

    Parameters
    ----------
    X : Bags, anything that :func:`distembed.as_bags` reads, or a table of :func:`distembed.tables.open_bags`
        At least three bags. A table is read twice, in batches, and need not fit into memory.
    factors : table of n_bags rows, or array-like of shape (n_bags,), optional
        What is known of the bags, such as site or batch: how much of the differences does each explain? The size of
        the bags is always asked. Rows are in the order of the bags, or a data frame has the ids for an index.
    embedding : "ranks", str or embedding, default="ranks"
        What makes rows of bags for the map and the groups: bounded functions of ranks, an embedding of the catalogue by
        name, behind the scaling that suits it, or an embedding that takes the points as they are.
    n_groups : int or "auto", default="auto"
        As ``n_clusters`` of :class:`~distembed.BagClusters`.
    groups : {"kmeans", "hdbscan"}, default="kmeans"
        As ``method`` of :class:`~distembed.BagClusters`.
    axes : {"principal", "umap"}, default="principal"
        Of the map: principal components, or UMAP (``pip install umap-learn``).
    random_state : int, RandomState or None, default=0
        Of the groups.
    progress : bool, callable or object, default=False
        What shows how far it is; see :func:`distembed.compute.progress.stages_of`.

    Returns
    -------
    Exploration
        ``map``, ``groups``, ``odd``, ``sizes``, ``duplicates``, ``factors``, ``summary``; ``print`` shows sentences,
        and ``distembed.report.explore`` writes one HTML file.

    Notes
    -----
    *Odd bags* are odd at their size (:class:`~distembed.OddBags`), so small bags are not odd for being small. Among n
    bags n/100 have a p-value of at most .01 if all are alike.

    *Beyond 5,000 bags* a random sample of these decides axes, groups, duplicates and what is usual, and all bags get a
    place, a group and a p-value.

    *Cost.* O(n_points), and some 20 numbers per column for each bag.

    Examples
    --------
    >>> import numpy as np
    >>> import distembed as de
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["a", "b"], 40)
    >>> arrays = [rng.normal(3 * (s == "b"), 1, size=(rng.integers(5, 60), 2)) for s in site]
    >>> arrays[3][2, 1] = 1000.0
    >>> found = de.explore(de.Bags.from_arrays(arrays, columns=["u", "v"]), factors={"site": site})
    >>> found.groups, found.map.shape, found.odd.pvalues.argmin(), found.odd.odd_columns[3]
    (BagGroups(2: 40, 40 bags), (80, 2), np.int64(3), 'v')
    >>> bool(found.factors["site"][0] > 0.5 > found.factors["size"][0])
    True
    """
    owner = "explore"
    check_choice(owner, "axes", axes, ("principal", "umap"))
    source = _Source(X)
    with stages_of(progress, owner) as stages:
        stages.begin("looking at bags", source.known_points)
        sample, positions, n_bags = source.sample(stages.advance)
        if sample.n_bags < 3:
            raise ValueError(f"explore(X=...): must have at least 3 bags with points, got {sample.n_bags}; give more")
        odd = OddBags().fit(sample)
        rows = RankRows().set(odd.reference_.rows) if _is_ranks(embedding) else make_rows(owner, embedding).fit(sample)
        own = np.asarray(rows.transform(sample), np.float64)
        clusters = BagClusters(n_groups, groups, "ranks", random_state=random_state)
        if n_groups != "auto":
            check_number(owner, "n_groups", n_groups, low=1, high=sample.n_bags, integer=True)
        check_choice(owner, "groups", groups, ("kmeans", "hdbscan"))
        clusters.fit_rows(sample, own)
        whole = len(positions) == n_bags
        stages.begin("comparing each bag", None if whole else n_bags)
        if whole:
            parts = [_of_the_fit(sample, clusters.axes_.scores(own), odd, clusters)]
        else:
            parts = [_look(batch, odd, rows, clusters) for batch in source.batches(stages.advance)]
        made = _Part.join(parts)
        if not whole:
            made = made.with_own(positions, odd.likeness_)
        place = _map(made, clusters.axes_.variances, axes, random_state)
        medoids = positions[clusters.medoids_] if len(clusters.medoids_) else clusters.medoids_
        found = Exploration(
            ids=made.ids,
            sizes=np.asarray(made.sizes, np.int64),
            map=place,
            groups=BagGroups(made.labels, clusters.n_clusters_, medoids, clusters.columns_, clusters.strengths_),
            odd=made.likeness,
            duplicates=[
                Duplicate(int(positions[a]), int(positions[b]), share) for a, b, share in near_duplicates(sample)
            ],
            factors=_factors(made, factors),
            column_names=tuple(sample.named_parts().columns or ()),
            sample=sample,
        )
    return replace(found, summary=summarise(found))


def _is_ranks(embedding: Any) -> bool:
    return isinstance(embedding, str) and embedding == RANKS


# --------------------------------------------------------------------------------------------------------------
# Bags in memory, or of a table
# --------------------------------------------------------------------------------------------------------------


class _Source:
    """Bags in batches, and a sample of them."""

    def __init__(self, X: Any) -> None:
        self._table = X if hasattr(X, "batches") and not isinstance(X, Bags) else None
        self._bags = None if self._table is not None else as_bags(X)
        if self._bags is not None and not self._bags.has_ids:
            self._bags = self._bags.replace(ids=np.arange(self._bags.n_bags))  # so pieces know their positions

    @property
    def known_points(self) -> int | None:
        """Points of all bags, where that is known before they are read."""
        if self._bags is not None:
            return self._bags.n_points
        return getattr(self._table, "known_points", None)

    def _pieces(self) -> Iterator[Bags]:
        if self._bags is not None:
            yield from (self._bags[i : i + _AT_ONCE] for i in range(0, self._bags.n_bags, _AT_ONCE))
        else:
            yield from self._table.batches()  # type: ignore[union-attr]

    def batches(self, advance: Callable[[int], object]) -> Iterator[Bags]:
        """Bags some at a time."""
        for piece in self._pieces():
            for i in range(0, piece.n_bags, _AT_ONCE):
                some = piece[i : i + _AT_ONCE]
                yield some
                advance(some.n_bags)

    def sample(self, advance: Callable[[int], object]) -> tuple[Bags, NDArray[np.intp], int]:
        """At most 5,000 bags drawn at random, their positions, and the number of all bags."""
        if self._bags is not None and self._bags.n_bags <= MOST_BAGS:
            advance(self._bags.n_points)
            return self._bags, np.arange(self._bags.n_bags), self._bags.n_bags
        rng = np.random.default_rng(0)
        kept: list[tuple[Array, Array, Bags]] = []
        n_bags = 0
        limit = 1.0
        for piece in self._pieces():
            keys = rng.random(piece.n_bags)
            here = np.flatnonzero((keys < limit) & (piece.sizes > 0))
            if len(here):
                kept.append((keys[here], n_bags + here, thin(piece[here])))
            n_bags += piece.n_bags
            advance(piece.n_points)
            if sum(len(each[0]) for each in kept) > 2 * MOST_BAGS:
                kept = [_least(kept)]
                limit = float(kept[0][0].max())
        if not kept:
            raise ValueError("explore(X=...): must have bags with points, got none; see that the table is not empty")
        _, positions, bags = _least(kept)
        return bags, positions, n_bags


def _least(kept: list[tuple[Array, Array, Bags]]) -> tuple[Array, Array, Bags]:
    """The bags with the least keys, in order of their positions, as many as are wanted and memory holds."""
    keys, positions = (np.concatenate([each[i] for each in kept]) for i in (0, 1))
    bags = concat([each[2] for each in kept])
    order = np.argsort(keys)[:MOST_BAGS]
    within = np.cumsum(bags.sizes[order]) <= _MOST_POINTS
    within[:100] = True
    rows = np.sort(order[within])
    return keys[rows], positions[rows], bags[rows]


@dataclass(frozen=True, eq=False)
class _Part:
    """What is known of some bags."""

    ids: Array
    sizes: Array
    scores: Array
    likeness: Likeness
    beyond: Array
    labels: Array

    @classmethod
    def join(cls, parts: list[_Part]) -> _Part:
        if len(parts) == 1:
            return parts[0]
        first = parts[0].likeness
        arrays: Any = {
            name: np.concatenate([getattr(each.likeness, name) for each in parts])
            for name in ("pvalues", "column_scores", "oddness", "ids")
        }
        own = {
            name: np.concatenate([getattr(each, name) for each in parts])
            for name in ("ids", "sizes", "scores", "beyond", "labels")
        }
        return cls(likeness=replace(first, **arrays), **own)

    def with_own(self, positions: Array, own: Likeness) -> _Part:
        """The bags of the sample were compared with others only when they were looked at in the fit."""
        likeness = self.likeness
        pvalues, oddness = likeness.pvalues.copy(), likeness.oddness.copy()
        scores = likeness.column_scores.copy()
        pvalues[positions], oddness[positions], scores[positions] = own.pvalues, own.oddness, own.column_scores
        made = replace(likeness, pvalues=pvalues, oddness=oddness, column_scores=scores)
        return replace(self, likeness=made)


def _of_the_fit(sample: Bags, scores: Array, odd: OddBags, clusters: BagClusters) -> _Part:
    """What the fit found of its own bags, each held out."""
    return _Part(sample.ids, sample.sizes, scores, odd.likeness_, odd.range_.beyond(sample), clusters.labels_)


def _look(bags: Bags, odd: OddBags, rows: Any, clusters: BagClusters) -> _Part:
    """Place, group and oddness of some bags."""
    scores = clusters.axes_.scores(np.asarray(rows.transform(bags), np.float64))
    labels = clusters.nearest_groups(scores)
    return _Part(bags.ids, bags.sizes, scores, odd.likeness(bags), odd.range_.beyond(bags), labels)


# --------------------------------------------------------------------------------------------------------------
# The map
# --------------------------------------------------------------------------------------------------------------


def _map(made: _Part, variances: Array, axes: str, random_state: Any) -> BagMap:
    scores = made.scores
    shares = np.append(variances, [0.0, 0.0])[:2] / max(float(variances.sum()), 1e-300)
    xy = np.zeros((len(scores), 2))
    xy[:, : min(2, scores.shape[1])] = scores[:, :2]
    what = "principal components"
    shown = float(shares.sum())
    if axes == "umap":
        xy = _umap(scores, random_state)
        shown = _kept(scores, xy)
        what = "UMAP"
        shares = np.array([np.nan, np.nan])
    middle = np.quantile(xy, [0.1, 0.5, 0.9], axis=0)
    reach = _FAR * np.maximum(middle[2] - middle[0], 1e-12) / 2 * 1.5
    low, high = middle[1] - reach, middle[1] + reach
    outside = ((xy < low) | (xy > high)).any(axis=1)
    alone = (made.beyond > 0.5).any(axis=1)
    far = outside | alone
    columns = np.full(len(xy), None, object)
    names = made.likeness.odd_columns
    for i in np.flatnonzero(far):
        columns[i] = names[i]
    return BagMap(np.clip(xy, low, high), shown, (float(shares[0]), float(shares[1])), far, columns, what)


def _umap(scores: Array, random_state: Any) -> Array:
    try:
        from umap import UMAP
    except ImportError as error:
        raise ImportError("explore(axes='umap') needs umap-learn: pip install umap-learn") from error
    seed = random_state if isinstance(random_state, int) else 0
    neighbours = min(15, len(scores) - 1)
    return np.asarray(UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1).fit_transform(scores), np.float64)


def _kept(scores: Array, xy: Array) -> float:
    """Squared correlation of distances in a picture with those between rows."""
    some = drawn_rows(len(scores), 500)
    i, j = np.triu_indices(len(some), 1)
    first, second = (np.linalg.norm(each[some][i] - each[some][j], axis=1) for each in (scores, xy))
    return float(np.corrcoef(first, second)[0, 1] ** 2)


# --------------------------------------------------------------------------------------------------------------
# What factors explain
# --------------------------------------------------------------------------------------------------------------


def _factors(made: _Part, factors: Any) -> dict[str, tuple[float, float]]:
    """For each factor alone, the share of the differences between bags that it explains, and its p-value."""
    scores = made.scores
    holder = Bags(np.zeros((len(scores), 1)), np.arange(len(scores) + 1), ids=made.ids)
    asked: dict[str, Any] = {}
    if np.ptp(made.sizes) > 0:
        asked["size"] = np.log(np.maximum(made.sizes, 1))[:, None]
    if factors is not None:
        asked |= encode_each("explore", "factors", factors, holder)
    some = drawn_rows(len(scores), _MOST_TESTED)
    centred = scores[some] - scores[some].mean(axis=0)
    gram = centred @ centred.T
    found = {}
    for name, columns in asked.items():
        here = columns[some]
        if not np.ptp(here, axis=0).any() or here.shape[1] >= len(some) - 1:
            continue
        design = read_design("explore", holder[some], {name: here[:, 0]}, None, None, None)
        design = design._replace(factors={name: here}, labels=None)
        answer = analyse("explore", design, gram, 199, np.random.default_rng(0), "rows", None)
        found[name] = (float(answer.r2[0]), float(answer.pvalues[0]))
    return found


# --------------------------------------------------------------------------------------------------------------
# Sentences
# --------------------------------------------------------------------------------------------------------------


def summarise(found: Exploration) -> dict[str, Any]:
    """The main numbers of an exploration, and sentences."""
    sizes = found.sizes
    order = np.argsort(-found.odd.oddness, kind="stable")[:_MOST_NAMED]
    names = found.odd.odd_columns
    oddest = [(id_text(found.ids, int(i)), names[i], float(found.odd.pvalues[i])) for i in order]
    n_odd = int((found.odd.pvalues <= 0.01).sum())
    n = len(sizes)
    counts = np.bincount(found.groups.labels[found.groups.labels >= 0], minlength=found.groups.n_groups).tolist()
    sized = f"{int(sizes.min()):,} to {int(sizes.max()):,} points (median {np.median(sizes):,.0f})"
    first = ", ".join(f"{name} ({column}, p = {p:.2g})" for name, column, p in oddest[:3])
    text = [f"{n:,} bags of {sized}, {len(found.column_names)} columns."]
    text.append(f"Oddest: {first}; {n_odd:,} bags have p <= .01, {n / 100:,.0f} would by chance.")
    if found.groups.n_groups > 1:
        text.append(f"{found.groups.n_groups} groups of {', '.join(f'{each:,}' for each in counts)} bags.")
    else:
        text.append("No separate groups.")
    text.append(f"The map shows {found.map.shown:.0%} of the squared distances between bags.")
    for name, (share, p) in found.factors.items():
        text.append(f"{name} explains {share:.1%} of the differences between bags (p = {p:.2g}).")
    if found.duplicates:
        closest = found.duplicates[0]
        pair = f"{id_text(found.ids, closest.first)} and {id_text(found.ids, closest.second)}"
        text.append(f"{len(found.duplicates):,} pairs of bags share most of their points, such as {pair}.")
    return {
        "n_bags": n,
        "n_points": int(sizes.sum()),
        "n_columns": len(found.column_names),
        "sizes": {"smallest": int(sizes.min()), "median": float(np.median(sizes)), "largest": int(sizes.max())},
        "n_groups": found.groups.n_groups,
        "groups": counts,
        "n_odd": n_odd,
        "oddest": oddest,
        "shown": found.map.shown,
        "factors": {name: {"r2": share, "p": p} for name, (share, p) in found.factors.items()},
        "n_duplicates": len(found.duplicates),
        "text": text,
    }
