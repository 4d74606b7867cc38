"""From a model, bags and labels to a report in one HTML file."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import __version__
from ..bags import Bags, as_bags
from ..bags.estimators import by_id
from ..compute.arrays import Array
from ..compute.atomic_files import write_whole
from ..compute.svg import number
from ..learners.batch import check_labels
from ..learners.classes import as_classes_of
from ..learners.prediction_table import inner
from ..learners.size import describe_sizes
from . import sections
from .payload import payload
from .predictions import COVERAGE, Predictions, effects, predict, rows_of, trained_on
from .summary import first_shown, summary


def write(
    model: Any,
    bags: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    covariates: Any = None,
    groups: Any = None,
    output: int | None = None,
    name: str | None = None,
    run: Mapping[str, Any] | None = None,
    held_out: Mapping[str, Any] | None = None,
) -> None:
    """Write a report on a model and bags: one HTML file, which needs no network and no other file.

    Parameters
    ----------
    model : DistributionRegressor, DistributionClassifier, ConformalRegressor, ConformalClassifier or any with predict
        Fitted. What is known of its search, its embedding and its intervals is shown.
    bags : Bags or anything that :func:`distembed.as_bags` reads
        In the units of ``fit``. Those that were used for training are recognised by id (model files hold hashes of
        ids); they are marked, and do not count in scores.
    y : array-like of shape (n_bags,), Series indexed by id, or None
        Their targets; None: no scores.
    path : path
        The file, which is replaced when the report is complete.
    covariates : table of n_bags rows, optional
        If ``fit`` had some.
    groups : array-like of shape (n_bags,), optional
        Groups of bags to compare, such as hospitals; standard errors are over them.
    output : int, optional
        Which output the report is about, counted from 0, of a model of several; ``y`` has a column for each, or is the
        one. It must be given there.
    name : str, optional
        What is predicted. By default as the command line has fitted it, or "target".
    run : mapping of str to anything, optional
        What else stands under "what was run", such as a command.
    held_out : mapping, optional
        Predictions that were made before the model learned from all bags: ``rows`` (mask of the bags), ``predicted``,
        ``probabilities`` or None, and ``how``, a sentence. They count in place of those of the model.

    Notes
    -----
    Needs jinja2: ``pip install 'distembed[report]'``. Everything from the table is escaped. Cost, beyond predicting all
    bags: 6,000 predictions with a column permuted, of at most 1,000 bags and 24 columns, an error budget of 30 bags for
    learners of one density embedding, and O(n_points) for the rest. The file has some 200 bytes per bag and 50 KB
    besides: 2 MB for 10,000 bags with ids of 14 characters.

    Examples
    --------
    >>> import tempfile
    >>> import distembed as de
    >>> bags, y = de.datasets.make_cells(60, random_state=0)
    >>> model = de.DistributionRegressor("mean", n_components=50, tune=None, random_state=0).fit(bags[:40], y[:40])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     de.report.write(model, bags, y, f"{folder}/report.html")
    ...     with open(f"{folder}/report.html", encoding="utf-8") as file:
    ...         text = file.read()
    >>> "40 of these bags were used for training" in text
    True
    """
    template = open_template("report.html")
    begin = perf_counter()
    found = bags if isinstance(bags, Bags) else as_bags(bags)
    targets = None if y is None else np.asarray(by_id(y, found, "y"))
    if targets is not None and targets.ndim == 2 and output is not None and 0 <= output < targets.shape[1]:
        targets = targets[:, output]
    if targets is not None and targets.shape != (found.n_bags,):
        raise ValueError(f"report.write(y=...): must be of shape ({found.n_bags},), got {targets.shape}; one per bag")
    if groups is not None:
        groups = check_labels("report.write", "groups", by_id(groups, found, "groups"), found.n_bags)
    if found.has_empty:
        filled = found.sizes > 0
        n_empty = int((~filled).sum())
        run = {**(run or {}), "empty bags": f"{n_empty:,} of {found.n_bags:,}; pictures and scores are of the others"}
        groups = None if groups is None else groups[filled]
        targets = None if targets is None else targets[filled]
        covariates = None if covariates is None else rows_of(covariates, filled)
        held_out = None if held_out is None else _without_empty(held_out, filled)
        found = found[filled]
    learner = inner(model)
    classes = np.asarray(learner.classes_) if hasattr(learner, "classes_") else None
    if classes is not None and targets is not None:
        targets = as_classes_of(targets, classes, "report.write(y=...)", "the classes of the model")
    name = (
        name or (getattr(learner, "table_", None) or {}).get("label") or ("class" if classes is not None else "target")
    )
    made = _predictions(model, found, covariates, held_out, output)
    effect = effects(model, found, made, covariates)
    page: dict[str, Any] = {
        "name": name,
        "title": f"{name}: {number(found.n_bags)} bags",
        "is_classes": classes is not None,
        "data": sections.data(found, targets, made, getattr(learner, "scaler_", None), name, describe_sizes(learner)),
        "quality": sections.quality(found, targets, made, classes, name, groups),
        "methods": sections.methods(model),
        "map": sections.map_of_bags(model, found, made, classes, name),
        "drivers": sections.drivers(found, made, effect, name, classes),
        "groups": sections.groups(found, targets, made, classes, effect, groups),
        "budget": sections.budget(model, found),
        "payload": payload(model, found, targets, made, effect),
    }
    page["summary"] = summary(model, found, made, effect, page, covariates)
    page["payload"]["first"] = first_shown(made, _losses(targets, made, classes))
    page["run"] = _run(model, run or {}, perf_counter() - begin)
    text = template.render(**page)
    with write_whole(Path(path)) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # names of files need not be text


def open_template(name: str) -> Any:
    """A page of this folder, whose values are escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("distembed.report needs jinja2: pip install 'distembed[report]'") from error
    loader = PackageLoader("distembed.report", ".")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template(name)


def _predictions(
    model: Any, bags: Bags, covariates: Any, held_out: Mapping[str, Any] | None, output: int | None
) -> Predictions:
    """Predictions for all bags, and which of these count."""
    found = predict(model, bags, covariates, output=output)
    if held_out is None:
        found.trained, found.how = trained_on(model, bags)
        return found
    rows = np.asarray(held_out["rows"], bool)
    if found.intervals is not None:  # as wide, around the predictions that did not know the bag
        found.intervals[rows] += (held_out["predicted"] - found.predicted[rows])[:, None]
    found.predicted = np.array(found.predicted)
    found.predicted[rows] = held_out["predicted"]
    if found.probabilities is not None and held_out.get("probabilities") is not None:
        found.probabilities[rows] = held_out["probabilities"]
        if found.sets is not None and getattr(model, "law_", None) is not None:
            found.sets[rows] = model.law_.sets(found.probabilities[rows], COVERAGE)
    found.trained = ~rows
    found.how = str(held_out["how"])
    return found


def _losses(y: Array | None, found: Predictions, classes: Array | None) -> Array | None:
    """How far each prediction is off, where targets are known."""
    return None if y is None else sections.losses(y, found.predicted, found.probabilities, classes)


def _without_empty(held_out: Mapping[str, Any], filled: Array) -> Mapping[str, Any]:
    """Predictions for the held-out bags that have points."""
    rows = np.asarray(held_out["rows"], bool)
    there = filled[rows]
    shares = held_out.get("probabilities")
    some = {"predicted": held_out["predicted"][there], "probabilities": None if shares is None else shares[there]}
    return {**held_out, **some, "rows": rows[filled]}


def _run(model: Any, given: Mapping[str, Any], seconds: float) -> list[tuple[str, str]]:
    """What made the model and the report."""
    learner = inner(model)
    rows = [(str(key), str(value)) for key, value in given.items()]
    rows.append(
        ("model", type(model).__name__ if model is learner else f"{type(model).__name__} of {type(learner).__name__}")
    )
    if hasattr(learner, "get_params"):
        own = learner.get_params(deep=False)
        rows += [(key, str(own[key])) for key in ("embedding", "random_state") if key in own]
    took = getattr(learner, "timings_", None)
    if took:
        rows.append(("seconds of the fit", ", ".join(f"{key} {value:.1f}" for key, value in took.items())))
    rows.append(("seconds of the report", f"{seconds:.1f}"))
    return rows + versions()


def versions() -> list[tuple[str, str]]:
    """When a page is written, and by what."""
    packages = ", ".join(f"{each} {version(each)}" for each in ("numpy", "scipy", "scikit-learn"))
    return [
        ("written", datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")),
        ("versions", f"distembed {__version__}, {packages}, Python {platform.python_version()} on {sys.platform}"),
    ]
