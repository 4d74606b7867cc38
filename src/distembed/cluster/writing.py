"""Predictions and vectors of all bags of a table, written by workers as Parquet, one file per part of the table.

A bag that is cut by parts is in the file of the first part that holds some of it. A file is there whole or not at all,
and the same whoever writes it, so a task that is run again does no harm.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from ..bags import Bags
from ..compute.arrays import Array
from ..compute.progress import Progress, stages_of
from ..learners.prediction_table import columns_of, inner
from ..tables import TableError
from ..tables.arrow import arrow_array, pa, parquet
from ..tables.labels import CovariateTable
from ..tables.paths import AnyPath, as_path
from .engine import Graph, client_for
from .fitting import are_smaller, covariate_table, owners_of, pieces_of, whole_bags
from .parts import Spec, bags_of, rows_of, take
from .table import ClusterTable

Columns = dict[str, Array]


def predict(
    model: Any,
    table: ClusterTable,
    output: Any,
    *,
    std: bool = False,
    covariates: Any = None,
    client: Any = None,
    storage_options: dict[str, Any] | None = None,
    progress: Progress = False,
) -> list[str]:
    """Predict for all bags of a table.

    Parameters
    ----------
    model : learner, or one with intervals or sets of classes around it
        Fitted.
    table : ClusterTable
        From :func:`distembed.cluster.open`, with the columns of ``fit``.
    output : path or URL
        A folder, which workers see; it is made if it is not there, and must hold no other parts.
    std : bool, default=False
        Whether to add deviations, of numbers.
    covariates : DataFrame or CovariateTable, optional
        If ``fit`` had some, by bag id, as in :func:`distembed.cluster.fit`.
    client : distributed.Client, optional
        Who works; by default the current one.
    storage_options : dict, optional
        What fsspec takes, for a URL.
    progress : bool, callable or object, default=False
        Of bags.

    Returns
    -------
    list of str
        The files. Each has the bag's id, prediction and, of classes, probabilities; ends of intervals, or sets.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import distembed as de
    >>> from distributed import Client
    >>> from distembed.tables import write_table
    >>> bags = de.as_bags(np.random.default_rng(0).normal(size=(30, 20, 1)))
    >>> model = de.DistributionRegressor("mean", n_components=None, tune=None).fit(bags, np.arange(30.0))
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=":0") as client:
    ...     write_table({"id": [1, 1, 2], "x": [0.1, 0.2, 0.3]}, f"{folder}/t.parquet")
    ...     table = de.cluster.open(f"{folder}/t.parquet", bag="id")
    ...     files = de.cluster.predict(model, table, f"{folder}/predictions", client=client)
    ...     len(files)
    1
    """
    if not hasattr(inner(model), "predict"):
        raise TypeError(f"cluster.predict(model=...): must be a learner, got {type(model).__name__}; use embed")
    if (getattr(inner(model), "encoder_", None) is None) != (covariates is None):
        given = "was fitted with covariates, got none; pass" if covariates is None else "was fitted without covariates,"
        remedy = " covariates=frame" if covariates is None else " got some; leave them out"
        raise ValueError(f"cluster.predict(model=...): {given}{remedy}")
    getattr(inner(model), "calibration_", None)  # made here once, not by every worker
    known = None if covariates is None else covariate_table(covariates, table)
    return _write_parts(
        _Predictions(std, known), model, table, output, client, storage_options, progress, "cluster.predict"
    )


def embed(
    model: Any,
    table: ClusterTable,
    output: Any,
    *,
    client: Any = None,
    storage_options: dict[str, Any] | None = None,
    progress: Progress = False,
) -> list[str]:
    """Make a vector of every bag of a table.

    Parameters
    ----------
    model : fitted embedding, pipeline or learner
        Of a learner, what its linear model sees; an ensemble has no single vector of a bag.
    table, output, client, storage_options, progress
        As for :func:`predict`.

    Returns
    -------
    list of str
        The files. Each has the bag's id and one column per feature.

    Examples
    --------
    >>> import tempfile
    >>> import distembed as de
    >>> from distributed import Client
    >>> from distembed.tables import read_bags, write_table
    >>> with tempfile.TemporaryDirectory() as folder, Client(processes=False, dashboard_address=":0") as client:
    ...     write_table({"id": [1, 1, 2], "x": [0.1, 0.2, 0.3]}, f"{folder}/t.parquet")
    ...     table = de.cluster.open(f"{folder}/t.parquet", bag="id")
    ...     embedding = de.MomentEmbedding("mean").fit(read_bags(f"{folder}/t.parquet", bag="id"))
    ...     files = de.cluster.embed(embedding, table, f"{folder}/features", client=client)
    ...     read_bags(f"{folder}/features", bag="id").points.round(2).tolist()
    [[0.15], [0.3]]
    """
    learner = inner(model)
    if hasattr(learner, "model_") and not hasattr(learner, "transform_features"):
        raise ValueError(
            "cluster.embed(model=...): an ensemble has no single vector of a bag; fit one embedding by name"
        )
    if not (hasattr(learner, "transform_features") or hasattr(learner, "transform")):
        raise TypeError(f"cluster.embed(model=...): {type(model).__name__} makes no features; pass an embedding")
    return _write_parts(_Features(), learner, table, output, client, storage_options, progress, "cluster.embed")


class _Predictions:
    """Columns of predictions."""

    def __init__(self, std: bool, covariates: CovariateTable | None) -> None:
        self._std = std
        self._covariates = covariates

    def __call__(self, model: Any, bags: Bags) -> Columns:
        covariates = None if self._covariates is None else self._covariates.of(bags.ids)
        return columns_of(model, bags, std=self._std, lists=True, covariates=covariates)


class _Features:
    """Columns of features."""

    def __call__(self, model: Any, bags: Bags) -> Columns:
        transform = getattr(model, "transform_features", None) or model.transform
        rows = np.asarray(transform(bags))
        found = [str(name) for name in model.get_feature_names_out()] if hasattr(model, "get_feature_names_out") else []
        names = found if len(set(found)) == rows.shape[1] else [f"feature_{j}" for j in range(rows.shape[1])]
        return dict(zip(names, rows.T, strict=True))


def _write_parts(
    make: Callable[[Any, Bags], Columns],
    model: Any,
    table: ClusterTable,
    output: Any,
    client: Any,
    storage_options: dict[str, Any] | None,
    progress: Progress,
    where: str,
) -> list[str]:
    """Files of columns, one for each part."""
    _check_columns(model, table, where)
    client = client_for(client, where)
    folder = as_path(output, storage_options)
    if folder.exists() and any(_is_part(file.name) for file in folder.rglob("*")):
        raise TableError(f"{where}(output=...): {str(folder)!r} holds parts already; name another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    with stages_of(progress, where) as stages:
        survey = table.survey(client, stages)
        table, survey = table.in_whole_bags(survey)
        graph = Graph(client, table.describe)
        cut = survey.is_cut
        shared = graph.constant(model)
        makes = graph.constant(make)
        by_sketches = hasattr(inner(model), "predict")
        by_sketches = by_sketches and are_smaller(model, survey.sizes[cut])
        owners, holders = owners_of(survey, cut)
        both = []
        for i, part in enumerate(table.parts):
            inside = survey.inside[i]
            whole = survey.ids[inside[~cut[inside]]]
            mine = survey.ids[inside[cut[inside]]]
            both.append(graph.add("rows", i, _rows, part, table.spec, shared, makes, whole, mine, by_sketches))
        pieces = [graph.at_once("pieces", i, itemgetter(1), each) for i, each in enumerate(both)]
        asked = []
        files = []
        for i, each in enumerate(both):
            inside = survey.inside[i]
            own = np.array([p for p in inside[cut[inside]].tolist() if owners[p] == i], np.int64)
            theirs = sorted({k for p in own.tolist() for k in holders[p]})
            files.append(folder / f"part-{i:05d}.parquet")
            rows = graph.at_once("whole", i, itemgetter(0), each)
            asked.append(
                graph.add(
                    "write", i, _write, rows, [pieces[k] for k in theirs], shared, table.spec, makes, survey.ids[own],
                    files[-1],
                )
            )  # fmt: skip
        stages.begin("writing", len(survey.ids))
        counts = graph.compute(asked, stages)
    n_bags = sum(counts)
    if n_bags != len(survey.ids):
        raise TableError(f"{table}: {n_bags:,} bags were written, and {len(survey.ids):,} are there; do it again")
    return [str(file) for file, count in zip(files, counts, strict=True) if count]


def _check_columns(model: Any, table: ClusterTable, where: str) -> None:
    """Refuse a table of other columns than those of the fit, before anything is read."""
    first = model[0] if hasattr(model, "named_steps") else inner(model)
    known = [str(name) for name in getattr(first, "feature_names_in_", table.columns)]
    if known != list(table.columns):
        raise ValueError(
            f"{where}: the table must have the columns {known}, as in fit, got {list(table.columns)}; open it with "
            f"columns={known}"
        )


def _is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith(".parquet")


# --------------------------------------------------------------------------------------------------------------
# In workers
# --------------------------------------------------------------------------------------------------------------


def _rows(
    part: Any, spec: Spec, model: Any, make: Any, ids: Array, cut: Array, by_sketches: bool
) -> tuple[Columns | None, Any]:
    """Columns of the whole bags of a part, ids under an empty name, and what it holds of bags that are cut."""
    rows = rows_of(part, spec)
    pieces = pieces_of(rows, spec, model if by_sketches else None, cut)
    if not len(ids):
        return None, pieces
    bags = bags_of(take(rows, ids), spec)
    return {"": bags.ids, **make(model, bags)}, pieces


def _write(
    rows: Columns | None, pieces: list[Any], model: Any, spec: Spec, make: Any, ids: Array, path: AnyPath
) -> int:
    """Write the columns of a part, sorted by id; returns the number of bags."""
    found = [] if rows is None else [rows]
    if len(ids):
        bags, _ = whole_bags(model, pieces, spec, ids)
        found.append({"": ids, **make(model, bags)})
    if not found:
        return 0
    columns = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    order = np.argsort(columns[""], kind="stable")
    names = {name: spec.bag if name == "" else f"{name}_" if name == spec.bag else name for name in columns}
    arrays = [
        pa.array(values[order].tolist()) if values.dtype == object else arrow_array(values[order])
        for values in columns.values()
    ]
    made = io.BytesIO()
    parquet.write_table(pa.table(arrays, names=list(names.values())), made)
    with path.write_whole() as file:
        file.write(made.getvalue())
    return len(order)
