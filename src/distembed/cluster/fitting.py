r"""Fits by a cluster: settings on the client, sums over bags in workers, equations solved on the client.

    survey -> a sample of whole bags, by a hash of their ids -> settings, embedding, random features   (client)
           -> sums over the bags of each part -> of eight of these -> of 32 of those ... -> all        (workers)
           -> solved                                                                                   (client)

Sums join in a tree whose shape depends on the number of parts alone, one BLAS thread makes each of them, and points of
a bag stand in the order of the table: neither the number of workers, nor the order in which they finish, nor which of
them are lost changes one bit of the model.

*Cost.* Two passes over the ids and one over the points, and a third over parts that hold sampled bags; n_bags D²
operations for D random features, in workers; D² numbers for a part that a worker is at work on, and D² / 2 for each
sum that waits for the next one, with which it joins: sums join two at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from ..bags import Bags
from ..bags.flat import few
from ..bags.ids import canonical_text, hash_ids, index_of, near_match, plain_ids
from ..compute.arrays import Array
from ..compute.progress import Progress, Stages, stages_of
from ..embeddings.sketches import row_from_pieces
from ..learners.prediction_table import inner
from ..learners.sketched_bags import Steps
from ..learners.view import EmbeddedBags
from ..tables import LabelTable, TableError, join, read_labels
from ..tables.labels import CovariateTable
from .checkpoints import Checkpoints
from .engine import Graph, client_for
from .parts import PartRows, Spec, bags_of, join_rows, rows_of, take
from .sums import PackedSums, Total
from .table import ClusterTable, Survey

FAN_IN = 8  # parts of a group, whose sums are kept in a checkpoint
BAGS_AT_ONCE = 1024  # bags whose features a worker makes at a time
_WIDE = 32  # groups that join to one: more wait for each other longer, fewer leave more sums waiting


def fit(
    learner: Any,
    table: ClusterTable,
    labels: Any,
    *,
    label: str | None = None,
    client: Any = None,
    missing: str = "error",
    unknown: str = "warn",
    groups: Any = None,
    sample_weight: Any = None,
    covariates: Any = None,
    checkpoint: Any = None,
    progress: Progress = False,
) -> Any:
    """Fit a learner to the bags of a table and their labels, by a cluster.

    Parameters
    ----------
    learner : DistributionRegressor or DistributionClassifier
        As for one machine; it is cloned, not fitted itself. Classes by ridge regression, as in ``fit_batches``.
    table : ClusterTable
        From :func:`distembed.cluster.open`.
    labels : DataFrame, Series, mapping, LabelTable or path
        Labels by bag id: a Series by its index, a frame or a file by the column of the table's bags.
    label : str, optional
        The column of labels, of frames and files.
    client : distributed.Client, optional
        Who works; by default the current one.
    missing, unknown : str
        How to handle bags without a label and labels without a bag, see :func:`distembed.tables.join`.
    groups : mapping of id to group, optional
        Bags of one group are held out together in the search for settings.
    sample_weight : mapping of id to weight, optional
        Weights of bags; those of other bags are one.
    covariates : DataFrame or CovariateTable, optional
        What is known of bags besides their points, by id: a frame by the column of the table's bags or by its index, or
        what :func:`distembed.tables.read_covariates` returns.
    checkpoint : path or URL, optional
        A folder that client and workers see, where settings and sums are kept until the fit is done. A fit that was
        stopped goes on from there when it is asked for again, with the same arguments.
    progress : bool, callable or object, default=False
        As in ``learner.fit``.

    Returns
    -------
    learner
        A fitted clone, as ``fit_batches`` of one machine returns it: the same to rounding, and to the last bit for the
        same parts, whatever the workers.

    Notes
    -----
    ``max_search_bags`` bags decide scaling, settings and embedding, those of the smallest hashes of their ids: parts
    and order of the table have no effect. Each bag is counted in the end: one that was lost or doubled is an error.

    *Memory* of a worker, however many bags there are: libraries, the rows of one part, 1,024 rows of features, D²
    numbers for the part that it is at work on, and D² / 2 for each sum that waits for others. Three or four of these
    wait where a part takes longer than moving 4 D² bytes, as parts of ``partition_rows=500_000`` do; many small parts
    on a busy machine leave more. That is 0.5 GB for D = 2,000; for D = 5,000 it was 0.9 GB with one worker, and 1.0 GB
    with two on an idle machine. Of the client: some 160 bytes for each bag, the sampled bags, and D² numbers.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import distembed as de
    >>> from distributed import Client
    >>> from distembed.tables import write_table
    >>> rng = np.random.default_rng(0)
    >>> spread, bag = rng.uniform(1, 3, size=40), np.repeat(np.arange(40), 20)
    >>> learner = de.DistributionRegressor("deviation", n_components=50, tune=None, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=":0") as client:
    ...     write_table({"id": bag, "x": rng.normal(size=800) * spread[bag]}, f"{folder}/t.parquet")
    ...     table = de.cluster.open(f"{folder}/t.parquet", bag="id")
    ...     model = de.cluster.fit(learner, table, dict(enumerate(spread)), client=client)
    >>> model.predict(de.Bags.from_arrays([rng.normal(size=500) * 2], columns=["x"])).round(0)
    array([2.])
    """
    _check_learner(learner)
    model = clone(learner)
    client = client_for(client, "cluster.fit")
    by_id = _labels_of(labels, label, table)
    with stages_of(progress, "cluster.fit") as stages:
        survey = table.survey(client, stages)
        found = join(survey.ids, by_id, missing=missing, unknown=unknown)
        y = np.zeros(len(survey.ids), found.labels.dtype)
        y[found.kept] = found.labels
        counts = np.zeros(len(survey.ids), bool)
        counts[found.kept] = True
        known = Known(y, _weights_of(sample_weight, survey.ids))
        if covariates is not None:
            columns = covariate_table(covariates, table).of(survey.ids[counts])
            known = known._replace(covariates=_spread_columns(columns, counts))
        kept = Checkpoints(checkpoint, learner, table, survey, known.arrays(), counts, groups)
        begun = kept.settings()
        if begun is None:
            begun = _begin(model, table, survey, known, counts, groups, client, stages)
            kept.keep_settings(begun)
        whole, places = table.in_whole_bags(survey)
        total = _sums(begun, whole, places, known, counts, kept, client, stages)
        wanted = (int(counts.sum()), int(survey.sizes[counts].sum()))
        if (total.n_bags, total.n_points) != wanted:
            raise TableError(
                f"{table}: {total.n_bags:,} bags of {total.n_points:,} points were learned from, and "
                f"{wanted[0]:,} of {wanted[1]:,} were there before; has it changed? do it again when it is complete"
            )
        stages.begin("solving", None)
        for head, sums in zip(_adding_heads(begun), total.sums, strict=True):
            head.ridge.adopt(sums.equations())
        begun.model_.solve()
        begun.n_batches_seen_ = len(whole.parts)
        begun.trained_on_ = np.unique(hash_ids(survey.ids[counts], begun.trained_salt_))
        kept.remove()
    return begun


# --------------------------------------------------------------------------------------------------------------
# On the client
# --------------------------------------------------------------------------------------------------------------


def _check_learner(learner: Any) -> None:
    """Refuse what needs all bags at once, before anything is read."""
    if not hasattr(type(learner), "fit_batches"):
        raise TypeError(
            f"cluster.fit(learner=...): must be a DistributionRegressor or DistributionClassifier, got "
            f"{type(learner).__name__}; calibrate intervals afterwards, with prefit=True"
        )
    if learner.head is not None:
        name = type(learner.head).__name__
        raise ValueError(
            f"{type(learner).__name__}(head={name}): workers can't join what it learns; leave head out, or use "
            "fit_batches"
        )
    learner.fit_batches  # noqa: B018 - it raises, with the reason, where all bags are needed at once


class Known(NamedTuple):
    """What is known of bags besides their points: labels, and weights and covariates if there are any."""

    y: Array
    weight: Array | None = None
    covariates: dict[str, Array] | None = None

    def take(self, rows: Any) -> Known:
        """Labels, weights and covariates of some of the bags."""
        columns = None if self.covariates is None else {name: each[rows] for name, each in self.covariates.items()}
        return Known(self.y[rows], None if self.weight is None else self.weight[rows], columns)

    def arrays(self) -> list[Array]:
        """All of it, one array after the other."""
        more = [] if self.weight is None else [self.weight]
        return [self.y, *more, *(self.covariates or {}).values()]


def _table_of(values: Any, name: str, what: str) -> LabelTable:
    """Values of bags by id, from a mapping or a Series."""
    if isinstance(values, Mapping):
        return LabelTable(list(values), list(values.values()))
    index = index_of(values)
    if index is None:
        raise TypeError(
            f"cluster.fit({name}=...): must be a mapping of ids to {what}, or a Series, got {type(values).__name__}; "
            f"use dict(zip(ids, {what}))"
        )
    return LabelTable(index, values.to_numpy())


def _groups_of(groups: Any, ids: Array) -> Array | None:
    """The group of each bag."""
    if groups is None:
        return None
    table = _table_of(groups, "groups", "groups")
    rows = table.index.rows_of(ids)
    if (rows < 0).any():
        lost = ids[rows < 0]
        near = near_match(lost, table.ids[table.index.unused(rows)])
        alike = "" if near is None else f" ({near.text('bags', 'groups')}: {near.remedy})"
        raise ValueError(
            f"cluster.fit(groups=...): must have a group for each bag, got none for {few(lost[:1])}{alike}; add it"
        )
    return np.asarray(table.labels[rows])


def _weights_of(weights: Any, ids: Array) -> Array | None:
    """Weights of bags; those that are not named weigh 1, unless weights of other ids may be meant for them."""
    if weights is None:
        return None
    table = _table_of(weights, "sample_weight", "weights")
    rows = table.index.rows_of(ids)
    lost = ids[rows < 0]
    spare = table.ids[table.index.unused(rows)]
    if len(lost) and len(spare):
        near = near_match(lost, spare)
        alike = "" if near is None else f" ({near.text('bags', 'weights')}: {near.remedy})"
        raise ValueError(
            f"cluster.fit(sample_weight=...): must be by the ids of the bags, got none for {few(lost)}, and some for "
            f"{few(spare)}{alike}; leave out what is not of these bags"
        )
    return np.where(rows < 0, 1.0, np.asarray(table.labels, float)[rows])


def covariate_table(covariates: Any, table: ClusterTable) -> CovariateTable:
    """Covariates by bag id, from a frame or a table of them."""
    if isinstance(covariates, CovariateTable):
        return covariates
    if not hasattr(covariates, "columns"):
        raise TypeError(
            f"covariates must be a data frame by bag id, or of tables.read_covariates, got "
            f"{type(covariates).__name__}; make a frame of it"
        )
    names = [name for name in covariates.columns if name != table.bag]
    own: Any = covariates[table.bag] if table.bag in list(covariates.columns) else index_of(covariates)
    return CovariateTable(own, {str(name): np.asarray(covariates[name]) for name in names})


def _spread_columns(columns: dict[str, Array], counts: Array) -> dict[str, Array]:
    """Columns for all bags, from those of the bags that count: others are never asked for."""
    first = {name: np.empty(len(counts), each.dtype) for name, each in columns.items()}
    for name, each in columns.items():
        first[name][counts] = each
        first[name][~counts] = each[0]
    return first


def _labels_of(labels: Any, label: str | None, table: ClusterTable) -> LabelTable:
    """Labels by id, from whatever has them."""
    if isinstance(labels, LabelTable):
        return labels
    if isinstance(labels, Mapping):
        return LabelTable(list(labels), list(labels.values()))
    if hasattr(labels, "columns"):
        if label is None:
            raise ValueError("cluster.fit(label=None): must name the column of labels of a frame; give it")
        for name in (label, table.bag):
            if name not in list(labels.columns):
                raise TableError(
                    f"labels: the frame has no column {name!r}; it has {', '.join(map(str, labels.columns))}"
                )
        return LabelTable(labels[table.bag], np.asarray(labels[label]))
    if hasattr(labels, "index") and hasattr(labels, "to_numpy"):
        return _table_of(labels, "labels", "labels")
    if label is None:
        raise ValueError("cluster.fit(label=None): must name the column of labels of a file; give it")
    return read_labels(labels, bag=table.bag, label=label)


def sample_of(ids: Array, most: int, seed: Any) -> Array:
    """Positions of at most n ids, those of the smallest hashes, increasing.

    Examples
    --------
    >>> chosen = sample_of(np.arange(1000), 3, 0)
    >>> moved = sample_of(np.arange(1000)[::-1], 3, 0)
    >>> sorted(chosen.tolist()) == sorted((999 - moved).tolist())
    True
    """
    if len(ids) <= most:
        return np.arange(len(ids))
    salt = f"{seed if isinstance(seed, int | np.integer) else 0}:".encode()
    text = (salt + each.encode() for each in canonical_text(ids).tolist())
    keys = np.array([int.from_bytes(hashlib.blake2b(each, digest_size=8).digest(), "big") for each in text], np.uint64)
    return np.sort(np.argsort(keys, kind="stable")[:most])


def _begin(
    model: Any,
    table: ClusterTable,
    survey: Survey,
    known: Known,
    counts: Array,
    groups: Any,
    client: Any,
    stages: Stages,
) -> Any:
    """Choose settings, embedding and random features on a sample of whole bags; nothing else is learned for good."""
    by_bag = _groups_of(groups, survey.ids[counts])
    labelled = np.flatnonzero(counts)
    chosen = sample_of(survey.ids[labelled], model.max_search_bags, model.random_state)
    some = labelled[chosen]
    stages.begin("gathering a sample", None)
    bags = table.take(survey.ids[some], survey, client)
    classes = np.unique(known.y[labelled]) if is_classifier(model) else None
    own = None if by_bag is None else by_bag[chosen]
    given = known.take(some)
    batch = (bags, given.y, given.weight, own, given.covariates)
    return model.fit_batches(lambda: iter([batch]), classes=classes, progress=stages)


def _adding_heads(learner: Any) -> list[Any]:
    """The heads of a learner to which bags can be added, each with its sums."""
    return [member.head for member in learner.model_.members if member.head.ridge is not None]


def _sums(
    begun: Any,
    table: ClusterTable,
    survey: Survey,
    known: Known,
    counts: Array,
    kept: Checkpoints,
    client: Any,
    stages: Stages,
) -> Total:
    """Sums over all bags that count, by a tree."""
    graph = Graph(client, table.describe)
    shared = graph.constant(forget_bags(begun))
    cut = survey.is_cut & counts
    sketching = are_smaller(begun, survey.sizes[cut])
    owners, holders = owners_of(survey, cut)
    groups = [range(i, min(i + FAN_IN, len(table.parts))) for i in range(0, len(table.parts), FAN_IN)]
    done = kept.groups_done(len(groups), len(table.parts), FAN_IN)
    there = [
        set(np.concatenate([own[cut[own]] for own in (survey.inside[i] for i in group)]).tolist()) for group in groups
    ]
    owned = [np.array(sorted(p for p in there[g] if owners[p] in groups[g]), np.int64) for g in range(len(groups))]
    needed = {i for g, own in enumerate(owned) if g not in done for p in own.tolist() for i in holders[p]}
    leaves = dict[int, Any]()
    pieces = dict[int, Any]()
    ticks = list[Any]()
    level = list[Any]()
    for i, part in enumerate(table.parts):
        inside = survey.inside[i]
        is_done = i // FAN_IN in done
        if is_done and i not in needed:
            continue
        whole = inside[counts[inside] & ~cut[inside] & (not is_done)]
        mine = survey.ids[inside[cut[inside] & (i in needed)]]
        leaves[i] = graph.add(
            "sums", i, _leaf, part, table.spec, shared, survey.ids[whole], known.take(whole), mine, sketching
        )
        if len(mine):
            pieces[i] = graph.at_once("pieces", i, attrgetter("pieces"), leaves[i])
        ticks.append(graph.at_once("count", i, attrgetter("n_bags"), leaves[i]))
    for g, group in enumerate(groups):
        if g in done:
            level.append(graph.add("kept", group[0], kept.load, g))
            continue
        own = owned[g]
        so_far = _chain(graph, group[0], [leaves[i] for i in group])
        theirs = sorted({i for p in own.tolist() for i in holders[p]})
        level.append(
            graph.add(
                "group", group[0], _group, so_far, [pieces[i] for i in theirs], shared, table.spec,
                survey.ids[own], known.take(own), kept.writer(g),
            )
        )  # fmt: skip
    while len(level) > 1:
        level = [_chain(graph, 0, level[i : i + _WIDE]) for i in range(0, len(level), _WIDE)]
    stages.begin("learning", int(counts.sum()))
    total: Total = graph.compute([level[0], *ticks], stages)[0]
    return total


def _chain(graph: Graph, part: int, totals: Sequence[Any]) -> Any:
    """Sums that join one after the other, so a worker has two of them at a time, and few wait for others."""
    so_far = totals[0]
    for each in totals[1:]:
        so_far = graph.add("join", part, Total.join, so_far, each)
    return so_far


def owners_of(survey: Survey, cut: Array) -> tuple[dict[int, int], dict[int, list[int]]]:
    """For each bag that is cut, the first part that holds some of it, and all of them."""
    holders: dict[int, list[int]] = {}
    for i, inside in enumerate(survey.inside):
        for p in inside[cut[inside]].tolist():
            holders.setdefault(p, []).append(i)
    return {p: parts[0] for p, parts in holders.items()}, holders


def forget_bags(begun: Any) -> Any:
    """A copy of a learner that knows all settings, and has learned from no bag."""
    model = deepcopy(begun)
    for head in _adding_heads(model):
        head.forget()
    return model


# --------------------------------------------------------------------------------------------------------------
# In workers
# --------------------------------------------------------------------------------------------------------------


def _leaf(part: Any, spec: Spec, model: Any, ids: Array, known: Known, cut: Array, sketching: bool) -> Total:
    """Sums over the whole bags of a part, and what it holds of bags that are cut."""
    rows = rows_of(part, spec)
    pieces = pieces_of(rows, spec, model if sketching else None, cut)
    if not len(ids):
        return Total(pieces=pieces)
    bags = bags_of(take(rows, ids), spec)
    if not np.array_equal(bags.ids, ids):
        raise TableError("has other bags than when it was looked at; do it again when it is complete")
    return replace(learn_sums(deepcopy(model), bags, known, bags.n_points), pieces=pieces)


def learn_sums(model: Any, bags: Bags | EmbeddedBags, known: Known, n_points: int) -> Total:
    """Sums over some bags, by a model that has learned from none and is used up."""
    for first in range(0, bags.n_bags, BAGS_AT_ONCE):
        some = slice(first, first + BAGS_AT_ONCE)
        given = known.take(some)
        model.partial_fit(bags[some], given.y, given.weight, covariates=given.covariates)
    sums = tuple(PackedSums.of(head.ridge.learned().equations()) for head in _adding_heads(model))
    return Total(sums, bags.n_bags, n_points)


def pieces_of(rows: PartRows, spec: Spec, model: Any, ids: Array) -> Any:
    """What rows hold of bags that are cut: sketches by id with a model that has them, else the rows themselves."""
    if not len(ids):
        return None
    own = take(rows, ids)
    if model is None:
        return own
    bags = bags_of(own, spec)
    steps = steps_for_sketches(model)
    assert steps is not None
    return dict(zip(plain_ids(bags.ids), steps.sketches(bags), strict=True))


def steps_for_sketches(model: Any) -> Steps | None:
    """How a model makes rows of bags if it can do so from sketches of their pieces; None if it can't."""
    learner = inner(model)
    if hasattr(learner, "model_") and not learner.model_.is_single:
        return None
    steps = Steps.of(learner)
    return None if steps.why_no_sketches() else steps


def are_smaller(model: Any, sizes: Array) -> bool:
    """Whether sketches of bags of these sizes are there, and smaller than their points, which would be gathered."""
    steps = steps_for_sketches(model)
    if steps is None or not len(sizes):
        return False
    return bool(sizes.sum() * inner(model).n_features_in_ > len(sizes) * steps.embedding.n_statistics())


def whole_bags(model: Any, pieces: Sequence[Any], spec: Spec, ids: Array) -> tuple[Bags | EmbeddedBags, int]:
    """Bags for a model, or rows of its embedding, made of pieces of bags that were cut; and their number of points.

    Parameters
    ----------
    model : learner
        Whose pieces these are.
    pieces : sequence
        Of all parts that hold some of these bags, in the order of the parts.
    spec : Spec
        Of the table.
    ids : ndarray
        Of the bags, sorted.
    """
    if isinstance(pieces[0], PartRows):
        bags = bags_of(take(join_rows(pieces), ids), spec)
        return bags, bags.n_points
    steps = steps_for_sketches(model)
    assert steps is not None
    found = [[part[key] for part in pieces if key in part] for key in ids.tolist()]
    rows = np.array([row_from_pieces(steps.embedding, each) for each in found])
    return EmbeddedBags(rows), sum(sketch.n_points for each in found for sketch in each)


def _group(total: Total, pieces: Sequence[Any], model: Any, spec: Spec, ids: Array, known: Known, write: Any) -> Total:
    """Sums over the bags of some parts, with those that are cut and begin in one of them."""
    mine = Total()
    if len(ids):
        bags, n_points = whole_bags(model, pieces, spec, ids)
        mine = learn_sums(deepcopy(model), bags, known, n_points)
    total = total.join(mine)
    if write is not None:
        write(total)
    return total
